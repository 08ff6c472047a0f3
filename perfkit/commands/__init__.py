"""The command line, one file a command: parse, call, print. cli.py puts them together.

Nothing heavy (pandas, matplotlib, cupy, ncu_report, rich) is imported at the top of a file here:
`perfkit --help` imports them all.
"""
