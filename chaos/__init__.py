"""Faults on purpose: a load, whatever may fail, and an independent reader of the tables that looks for what broke."""
