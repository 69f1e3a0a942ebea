"""HOW: instructions, lowering, the schedule, the memory plan, the program's text, its verifier and admission."""
