"""Tracking: experiments told to TensorBoard, MLflow or any `Tracker` while they run."""
