"""LangChain's create_agent (LangGraph): agents as tools, with the instrumentation of OpenInference."""

import sys

import telemetry
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.tools import tool
from openinference.instrumentation.langchain import LangChainInstrumentor

LangChainInstrumentor().instrument(tracer_provider=telemetry.provider)


def agent(name, tools):
    # A failing tool is told to the model.
    told = ToolRetryMiddleware(max_retries=0, on_failure="continue")
    return create_agent("openai:gpt-4o", tools, name=name, system_prompt=f"You are {name}.", middleware=[told])


def answer(other, task):
    return other.invoke({"messages": [{"role": "user", "content": task}]})["messages"][-1].content


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
    return answer(gamma, task)


@tool
def ask_alpha(task: str) -> str:
    """Asks alpha."""
    return answer(alpha, task)


@tool
def ask_beta(task: str) -> str:
    """Asks beta."""
    return answer(beta, task)


gamma = agent("gamma", [add])
alpha = agent("alpha", [ask_gamma])
beta = agent("beta", [lookup])
main = agent("main", [ask_alpha, ask_beta])
print(answer(main, sys.argv[1]))
