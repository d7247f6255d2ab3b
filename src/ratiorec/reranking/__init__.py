"""Rules for lists: limits, places and boosts of items, diversity, calibration."""
