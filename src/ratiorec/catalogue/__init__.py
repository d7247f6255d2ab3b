"""What is known of items and users beside their ids: attributes, filters, rules, new items."""
