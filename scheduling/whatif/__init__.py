"""What if: a draft of edits in, the differences that it makes out; nothing is written.

`draft` is what is tried, `future` what comes of a snapshot when the engine has its way for some cycles, `effect` what
differs between two futures, `desk` lets one be worked out at a time, `told` is an effect for one reader, and `asking`
ties them together for pages and API. `freed` asks the engine who would start on more GPUs.
"""
