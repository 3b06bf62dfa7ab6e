"""What `programs.train_program` injects into a federated program of TFF."""
