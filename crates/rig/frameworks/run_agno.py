"""Agno: agents in tools, with the instrumentation of OpenInference."""

import asyncio
import sys

import telemetry
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from openinference.instrumentation.agno import AgnoInstrumentor

AgnoInstrumentor().instrument(tracer_provider=telemetry.provider)


def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def agent(name, tools):
    return Agent(
        name=name, model=OpenAIChat(id="gpt-4o"), instructions=f"You are {name}.", tools=tools, telemetry=False
    )


async def ask_gamma(task: str) -> str:
    """Asks gamma."""
    return (await gamma.arun(task)).content


async def ask_alpha(task: str) -> str:
    """Asks alpha."""
    return (await alpha.arun(task)).content


async def ask_beta(task: str) -> str:
    """Asks beta."""
    return (await beta.arun(task)).content


gamma = agent("gamma", [add])
alpha = agent("alpha", [ask_gamma])
beta = agent("beta", [lookup])
main = agent("main", [ask_alpha, ask_beta])
print(asyncio.run(main.arun(sys.argv[1])).content)
