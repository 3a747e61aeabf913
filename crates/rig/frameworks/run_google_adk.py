"""Google ADK: agents as tools, its own instrumentation."""

import asyncio
import sys

import telemetry  # noqa: F401
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool


def lookup(key: str) -> str:
    """Looks up a key."""
    raise KeyError(key)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def told(tool, args, tool_context, error):
    # A failing tool is told to the model.
    return {"error": str(error)}


def agent(name, tools):
    return LlmAgent(
        name=name,
        model="gemini-2.5-flash",
        description=f"Asks {name}.",
        instruction=f"You are {name}.",
        tools=tools,
        on_tool_error_callback=told,
    )


gamma = agent("gamma", [add])
alpha = agent("alpha", [AgentTool(gamma)])
beta = agent("beta", [lookup])
main = agent("main", [AgentTool(alpha), AgentTool(beta)])


async def run(task):
    events = await InMemoryRunner(agent=main, app_name="app").run_debug(task, quiet=True)
    return events[-1].content.parts[0].text


print(asyncio.run(run(sys.argv[1])))
