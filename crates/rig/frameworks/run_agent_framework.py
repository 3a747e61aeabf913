"""Microsoft Agent Framework: agents as tools, its own instrumentation."""

import asyncio
import sys

import telemetry  # noqa: F401
from agent_framework import Agent, tool
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatClient

enable_instrumentation()


@tool
def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def agent(name, tools):
    return Agent(OpenAIChatClient(model="gpt-4o"), f"You are {name}.", name=name, tools=tools)


def ask(other):
    return other.as_tool(name=f"ask_{other.name}", arg_name="task")


gamma = agent("gamma", [add])
alpha = agent("alpha", [ask(gamma)])
beta = agent("beta", [lookup])
main = agent("main", [ask(alpha), ask(beta)])
print(asyncio.run(main.run(sys.argv[1])).text)
