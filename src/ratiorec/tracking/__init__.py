"""Experiments told to others while they run: TensorBoard, MLflow, or whoever has a `Tracker`."""
