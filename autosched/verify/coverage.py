"""Which runs of a full verification cover what a small problem cannot: the true size, many tiles, far addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

Role = Literal["true size", "many tiles", "far"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class RoleCoverage:
    """``runs`` names those of one role; where there are none, ``absent`` says why. ``left_out``: what they did not
    compare."""

    role: Role
    runs: tuple[str, ...] = ()
    absent: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def lacks(self) -> str:
        """What is missing, in a few words; "" where nothing is."""
        if not self.runs:
            return f"no {self.role} run: {self.absent or 'none was made'}"
        return f"{self.role} run: {'; '.join(self.left_out)}" if self.left_out else ""


@dataclass(frozen=True)
class Coverage:
    """What a full verification had of each role."""

    roles: tuple[RoleCoverage, ...]

    @property
    def lacks(self) -> tuple[str, ...]:
        """One short text for each thing that is missing."""
        return tuple(role.lacks for role in self.roles if role.lacks)

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(role) for role in self.roles]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]]) -> Self:
        """Return the coverage whose ``to_json()`` was ``data``. Raises KeyError, TypeError or ValueError for other
        data."""
        roles = tuple(
            RoleCoverage(
                _role(item["role"]),
                tuple(map(str, item["runs"])),
                str(item["absent"]),
                tuple(map(str, item["left_out"])),
            )
            for item in data
        )
        if tuple(role.role for role in roles) != ROLES:
            raise ValueError(f"coverage is of the roles {', '.join(ROLES)}")
        return cls(roles)


def _role(name: object) -> Role:
    for role in ROLES:
        if role == name:
            return role
    raise ValueError(f"unknown role {name!r}")
