"""Graph -> Graph: small pure functions, and the pipeline that orders and verifies them."""
