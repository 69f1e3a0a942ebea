"""What people see: the command line, drawings, tables, explanations."""
