"""The web application: records and a live model in the browser. `regard serve` starts it."""
