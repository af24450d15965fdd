# SPDX-License-Identifier: Apache-2.0
"""The knob that has threads of C++ make the batches, where all that makes them is known."""

from __future__ import annotations

import os

from ..loop.script import Script
from ..public.plan import NoPlan, Plan, plan_of
from .knob import Knob, Value
from .knob_list import training_obstacle

NATIVE = "loader.native_threads"


def native_knob(script: Script) -> Knob:
    def set_threads(value: Value) -> None:
        if value:
            script.loader_changes["native_threads"] = value
        else:
            script.loader_changes.pop("native_threads", None)

    knob = Knob(
        NATIVE,
        0,
        "exact",
        "Threads of C++ that make the batches in place of the DataLoader; 0: it makes them.",
        set_threads,
        minimum=0,
        maximum=len(os.sched_getaffinity(0)),
        unit="threads",
        warmup_steps=2,
        one_time_cost="opening the files",
        reaches="batches",
    )
    found = script.training_loader()
    loader = found.loader if found is not None else None
    knob.unavailable = training_obstacle(script)
    if not knob.unavailable and loader is not None:
        try:
            knob.risk = _risk_of(plan_of(loader))
        except NoPlan as error:
            knob.unavailable = str(error)
        except Exception as error:  # of a data set that only looks like one that is known
            knob.unavailable = f"the data set cannot be read: {type(error).__name__}: {error}"
    return knob


def _risk_of(plan: Plan) -> str:
    if plan.draws:
        return "semantics"  # the same distributions, other numbers
    return "numerics" if plan.rounds else "exact"
