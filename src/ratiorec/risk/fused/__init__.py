"""The unlabelled term of the risk, value and gradient, without a matrix of users and candidates."""
