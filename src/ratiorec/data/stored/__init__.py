"""Training sets on disk: folders of plain arrays, made in little memory and opened by a map."""
