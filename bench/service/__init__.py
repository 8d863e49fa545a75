"""The service under load: how long lists, pages and single jobs take while jobs run in another process."""
