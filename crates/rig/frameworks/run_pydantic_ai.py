"""pydantic-ai: agents as tools, its own instrumentation."""

import sys

import telemetry  # noqa: F401
from pydantic_ai import Agent, ModelRetry

Agent.instrument_all()
main, alpha, beta, gamma = (
    Agent("openai-chat:gpt-4o", name=name, instructions=f"You are {name}.")
    for name in ("main", "alpha", "beta", "gamma")
)


@main.tool_plain
async def ask_alpha(task: str) -> str:
    return (await alpha.run(task)).output


@main.tool_plain
async def ask_beta(task: str) -> str:
    return (await beta.run(task)).output


@alpha.tool_plain
async def ask_gamma(task: str) -> str:
    return (await gamma.run(task)).output


@beta.tool_plain
def lookup(key: str) -> str:
    raise ModelRetry(f"no such key: {key}")


@gamma.tool_plain
def add(a: int, b: int) -> int:
    return a + b


print(main.run_sync(sys.argv[1]).output)
