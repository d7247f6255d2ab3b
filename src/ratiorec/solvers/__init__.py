"""Models that are solved rather than descended: in closed form, or sweep by sweep."""
