"""Where the shop's services listen. The only place of the example that reads the environment."""

from __future__ import annotations

from datetime import timedelta

from pydantic_settings import BaseSettings, SettingsConfigDict


class ShopSettings(BaseSettings):
    """``SHOP_INVENTORY_URL``, ``SHOP_PAYMENTS_URL``, ``SHOP_SHIPPING_URL``, ``SHOP_PATIENCE``."""

    model_config = SettingsConfigDict(env_prefix="SHOP_", frozen=True, extra="ignore")

    inventory_url: str = "http://127.0.0.1:8101"
    payments_url: str = "http://127.0.0.1:8102"
    shipping_url: str = "http://127.0.0.1:8103"
    patience: timedelta = timedelta(seconds=1.5)
    """The longest wait for one answer of a service."""


def load() -> ShopSettings:
    """The settings as the environment has them now."""
    return ShopSettings()
