"""Coverage of a full verification beyond a small problem: the true size, many tiles, and high addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, get_args

Role = Literal["true size", "many tiles", "far"]
ROLES: tuple[Role, ...] = get_args(Role)


class RoleCoverage(NamedTuple):
    """The runs of a full verification that have one ``role``: true size, many tiles, or high addresses.

    ``runs`` lists the names of the runs. If the role has no runs, ``absent`` gives the reason. ``left_out`` names
    outputs that these runs did not compare.
    """

    role: Role
    runs: tuple[str, ...] = ()
    absent: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def lacks(self) -> str:
        """Missing coverage of this role as a short text, or "" if nothing is missing."""
        if not self.runs:
            return f"no {self.role} run: {self.absent or 'none was made'}"
        return f"{self.role} run: {'; '.join(self.left_out)}" if self.left_out else ""


class Coverage(NamedTuple):
    """Coverage of a full verification: its runs at the true size, with many tiles, and at high addresses."""

    roles: tuple[RoleCoverage, ...]

    @property
    def lacks(self) -> tuple[str, ...]:
        """Missing coverage, as one short text per role."""
        return tuple(role.lacks for role in self.roles if role.lacks)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the roles as JSON."""
        return [role._asdict() for role in self.roles]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]]) -> Self:
        """Return the coverage of a ``to_json()`` result. Raises KeyError, TypeError or ValueError for other data."""
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
            raise ValueError(f"invalid coverage: it needs exactly the roles {', '.join(ROLES)}")
        return cls(roles)


def _role(name: object) -> Role:
    for role in ROLES:
        if role == name:
            return role
    raise ValueError(f"unknown role {name!r}")
