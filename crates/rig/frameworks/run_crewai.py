"""CrewAI: agents in tools, with the instrumentation of OpenInference."""

import os
import sys

# Without the exporter to its vendor.
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

import telemetry
from crewai import Agent, LLM
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

CrewAIInstrumentor().instrument(tracer_provider=telemetry.provider)
OpenAIInstrumentor().instrument(tracer_provider=telemetry.provider)


@tool("lookup")
def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


@tool("add")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def agent(name, tools):
    return Agent(role=name, goal=f"Be {name}.", backstory=f"You are {name}.", tools=tools, llm=LLM("openai/gpt-4o"))


@tool("ask_gamma")
def ask_gamma(task: str) -> str:
    """Asks gamma."""
    return gamma.kickoff(task).raw


@tool("ask_alpha")
def ask_alpha(task: str) -> str:
    """Asks alpha."""
    return alpha.kickoff(task).raw


@tool("ask_beta")
def ask_beta(task: str) -> str:
    """Asks beta."""
    return beta.kickoff(task).raw


gamma = agent("gamma", [add])
alpha = agent("alpha", [ask_gamma])
beta = agent("beta", [lookup])
main = agent("main", [ask_alpha, ask_beta])
print(main.kickoff(sys.argv[1]).raw)
