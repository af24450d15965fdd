# SPDX-License-Identifier: Apache-2.0
"""A session that refuses everything: each change is checked beside real steps, exact ones are tried, and none is kept.

The script must then train bit for bit as it does alone.
"""

from arms import Agent, Failed
from autotuned.protocol import Closed

# It takes a minute, and PyTorch keeps what it compiled.
_LEFT_ALONE = ("model.compile",)
_CHECKED_STEPS = 2
_TRIED_STEPS = 3
_CLEAN_NS = 120_000_000_000  # the longest wait for them


def candidates(knobs: list[dict]) -> list[tuple[dict, bool]]:
    """Changes of one knob each, and whether it claims to train bit for bit the same."""
    found = []
    for knob in knobs:
        if not knob["available"] or knob["switch"] != "live" or knob["name"] in _LEFT_ALONE:
            continue
        if knob["type"] == "boolean":
            values = [not knob["default"]]
        elif knob["type"] == "integer":
            values = [value for value in (knob["default"] - 1, knob["default"] + 1)
                      if knob["minimum"] <= value <= knob["maximum"]]
        else:
            values = [value for value in knob["choices"]
                      if value != knob["default"] and value not in knob.get("unavailable_choices", {})]
        found += [({knob["name"]: value}, knob["risk"] == "exact") for value in values]
    return found


def refuse(agent: Agent) -> tuple[int, int]:
    """Until the script ends. How many changes were checked, and how many exact ones were tried."""
    checked = tried = 0
    try:
        changes = candidates(agent.load()["knobs"])
        for change, is_exact in changes:
            # One that cannot be checked is refused as well.
            answer = agent.answer("check", configuration=change, steps=_CHECKED_STEPS, maximum_ns=_CLEAN_NS)
            checked += "ok" in answer
            if is_exact and "ok" in agent.answer("prepare", configuration=change):
                agent.answer("run", minimum_ns=1, minimum_steps=_TRIED_STEPS, maximum_ns=_CLEAN_NS)
                tried += 1
                agent.answer("prepare", configuration={})
            agent.answer("run", minimum_ns=1, minimum_steps=_TRIED_STEPS, maximum_ns=_CLEAN_NS)
        agent.ask("finish", configuration={})
    except Closed:
        pass  # the script has ended before
    except Failed as error:
        print(f"autotuned's agent refused: {error}")
    agent.see_out()
    return checked, tried
