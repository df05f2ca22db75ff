def mistakes(runs): pass
