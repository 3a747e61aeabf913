"""Strands Agents: agents as tools, its own instrumentation."""

import sys

import telemetry  # noqa: F401
from strands import Agent, tool
from strands.models.openai import OpenAIModel


def agent(name, tools):
    return Agent(
        model=OpenAIModel(model_id="gpt-4o"),
        name=name,
        system_prompt=f"You are {name}.",
        tools=tools,
        callback_handler=None,
    )


@tool
def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
def ask_gamma(task: str) -> str:
    """Asks gamma."""
    return str(agent("gamma", [add])(task))


@tool
def ask_alpha(task: str) -> str:
    """Asks alpha."""
    return str(agent("alpha", [ask_gamma])(task))


@tool
def ask_beta(task: str) -> str:
    """Asks beta."""
    return str(agent("beta", [lookup])(task))


print(agent("main", [ask_alpha, ask_beta])(sys.argv[1]))
