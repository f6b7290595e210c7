"""What the environment says: settings, and what is sold under them. Read when it is asked for."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.settings import Settings
    from service.tiers import Catalog


def settings() -> "Settings":
    """Raises SettingsError."""
    from service.settings import read

    return read(os.environ)


def sold(path: Path | None, profile: str | None) -> "Catalog":
    """What the catalog, or the one that the environment names, sells under the profile. Raises FastmodeError."""
    from service import profiles, tiers

    configured = settings()
    return profiles.load(profile or configured.profile, tiers.load(path or configured.catalog)).catalog
