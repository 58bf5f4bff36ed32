//! Pages for people: login, consent, account, status. Knows nothing of MCP messages and of SQL.
