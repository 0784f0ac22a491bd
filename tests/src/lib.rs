//! What end-to-end tests share: starting a mesh of real processes and asking it as callers do.
