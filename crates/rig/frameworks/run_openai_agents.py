"""OpenAI Agents SDK: agents as tools, with the instrumentation of OpenInference."""

import sys

import telemetry
from agents import Agent, Runner, function_tool, set_trace_processors
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

# Without the exporter to its vendor.
set_trace_processors([])
OpenAIAgentsInstrumentor().instrument(tracer_provider=telemetry.provider)


@function_tool
def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


@function_tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def agent(name, tools):
    return Agent(name=name, instructions=f"You are {name}.", tools=tools, model="gpt-4o")


def ask(other):
    return other.as_tool(tool_name=f"ask_{other.name}", tool_description=f"Asks {other.name}.")


gamma = agent("gamma", [add])
alpha = agent("alpha", [ask(gamma)])
beta = agent("beta", [lookup])
main = agent("main", [ask(alpha), ask(beta)])
print(Runner.run_sync(main, sys.argv[1]).final_output)
