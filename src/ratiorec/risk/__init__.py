"""Risks and the parts they are made of; they know tensors only."""
