"""Spec + site + topology -> Plan: every decision, with its rule and its reason. Pure."""
