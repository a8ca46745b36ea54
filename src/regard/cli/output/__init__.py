"""What commands print: console, help, progress, tables, findings."""
