"""What several tests share: small data and models, servers, clients, browsers."""
