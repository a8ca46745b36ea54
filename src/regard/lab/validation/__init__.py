"""Are the judges right? Models of known truth, and reports of nothing."""
