
2text