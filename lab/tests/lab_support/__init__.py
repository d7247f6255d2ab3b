"""What several tests of the laboratory share."""
