"""RUN: the backend ABI, the executor, the session, the report and its check against the plan."""
