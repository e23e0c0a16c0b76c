"""The browser dashboard: gets values from core and draws them."""
