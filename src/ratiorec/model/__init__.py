"""A trained model at rest: loads, ranks, folds users in and is stored, without torch."""
