"""Sources: tables of any kind as records that can be counted and are never shown."""
