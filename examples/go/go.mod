module chat

go 1.19
