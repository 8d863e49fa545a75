"""Invoices to data: extracted once per content, checked, saved as JSON and Parquet, and reviewed by people."""
