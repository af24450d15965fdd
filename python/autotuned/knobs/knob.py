# SPDX-License-Identifier: Apache-2.0
"""One knob of a script: its values, what it claims, and how it is set."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from ..protocol import RequestError

Value = bool | int | str
Configuration = dict[str, Value]


@dataclasses.dataclass
class Knob:
    name: str
    default: Value  # the script's own value
    risk: str
    summary: str
    set: Callable[[Value], None]
    choices: list[str] = dataclasses.field(default_factory=list)
    minimum: int = 0
    maximum: int = 0
    unit: str = ""
    switch: str = "live"
    warmup_steps: int = 0
    one_time_cost: str = ""
    unavailable: str = ""
    unavailable_choices: dict[str, str] = dataclasses.field(default_factory=dict)
    # What a check compares: "updates", "optimizer" (updates, but not gradients) or "batches".
    reaches: str = "updates"

    @property
    def type(self) -> str:
        if isinstance(self.default, bool):
            return "boolean"
        return "integer" if isinstance(self.default, int) else "choice"

    def to_json(self) -> dict[str, Any]:
        json: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "default": self.default,
            "unit": self.unit,
            "risk": self.risk,
            "switch": self.switch,
            "warmup_steps": self.warmup_steps,
            "one_time_cost": self.one_time_cost,
            "available": not self.unavailable,
            "unavailable": self.unavailable,
            "summary": self.summary,
        }
        if self.type == "integer":
            json.update(minimum=self.minimum, maximum=self.maximum)
        if self.choices:
            json.update(choices=self.choices, unavailable_choices=self.unavailable_choices)
        return json

    def check(self, value: Any) -> None:
        if self.type == "boolean":
            is_inside = isinstance(value, bool)
        elif self.type == "integer":
            is_inside = (
                isinstance(value, int)
                and not isinstance(value, bool)
                and self.minimum <= value <= self.maximum
            )
        else:
            is_inside = value in self.choices
        if not is_inside:
            raise RequestError(
                "invalid",
                f"{value!r} is not a value of this knob",
                self.name,
                "see the answer of load",
            )
        if value == self.default:
            return
        obstacle = self.unavailable or self.unavailable_choices.get(str(value), "")
        if obstacle:
            raise RequestError("invalid", obstacle, self.name, "leave the knob as it is")
