"""AutoGen: agents as tools, its own instrumentation."""

import asyncio
import sys

import telemetry  # noqa: F401
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.tools import AgentTool
from autogen_ext.models.openai import OpenAIChatCompletionClient


def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def agent(name, tools):
    return AssistantAgent(
        name,
        OpenAIChatCompletionClient(model="gpt-4o"),
        tools=tools,
        description=f"Asks {name}.",
        system_message=f"You are {name}.",
        max_tool_iterations=2,
    )


def ask(other):
    return AgentTool(other, return_value_as_last_message=True)


gamma = agent("gamma", [add])
alpha = agent("alpha", [ask(gamma)])
beta = agent("beta", [lookup])
main = agent("main", [ask(alpha), ask(beta)])
print(asyncio.run(main.run(task=sys.argv[1])).messages[-1].content)
