"""Recipe section `plan`: budget and prices."""

from __future__ import annotations

from pydantic import Field

from umsicht.recipe.base import Section


class PlanSettings(Section):
    """What may be spent, and at which prices."""

    device_hours: float | None = Field(default=None, gt=0)
    """Device hours that may be spent on this training, everything included. Without a budget nothing is judged against one."""

    money: float | None = Field(default=None, gt=0)
    """Money that may be spent, in `currency`."""

    currency: str = "EUR"
    """Name of the currency of all prices."""

    price_per_device_hour: float = Field(default=0.0, ge=0)
    """Price of one device for one hour."""

    price_per_kwh: float = Field(default=0.0, ge=0)
    """Price of electricity where it is paid apart from the device."""

    device_watts: float = Field(default=0.0, ge=0)
    """Power drawn by one device under load, everything around it included."""

    price_per_gb_month: float = Field(default=0.0, ge=0)
    """Price of storing 10⁹ bytes for a month."""

    storage_months: float = Field(default=1.0, ge=0)
    """How long checkpoints are kept."""

    devices: int = Field(default=1, ge=1)
    """Devices that train at the same time."""

    restarts: int = Field(default=1, ge=0)
    """Restarts from a checkpoint that the budget must be able to pay; below 1 is a finding."""

    repeats: int = Field(default=1, ge=1)
    """Complete trainings (seeds) that the budget must pay."""

    reserve: float = Field(default=0.1, ge=0, le=2)
    """Extra share kept for what nobody foresaw."""

    measure_seconds: float = Field(default=0.0, ge=0)
    """`umsicht run` first trains a ladder of small models for about this many seconds and predicts the score; 0: only from a measurement that exists."""
