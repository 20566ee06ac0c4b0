"""The supervisor: recovers what got stuck. It alone re-opens overdue orders, counts failures and gives up."""
