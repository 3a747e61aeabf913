"""smolagents: managed agents, with the instrumentation of OpenInference."""

import sys

import telemetry
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

SmolagentsInstrumentor().instrument(tracer_provider=telemetry.provider)


@tool
def lookup(key: str) -> str:
    """Looks up a key.

    Args:
        key: The key.
    """
    raise KeyError(key)


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: One number.
        b: The other.
    """
    return a + b


def agent(name, tools, others):
    return ToolCallingAgent(
        tools,
        OpenAIServerModel("gpt-4o"),
        managed_agents=others,
        name=name,
        description=f"Asks {name}.",
        instructions=f"You are {name}.",
        verbosity_level=0,
    )


gamma = agent("gamma", [add], [])
alpha = agent("alpha", [], [gamma])
beta = agent("beta", [lookup], [])
main = agent("main", [], [alpha, beta])
print(main.run(sys.argv[1]))
