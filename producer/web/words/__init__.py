"""The pages' words: one module a subject, each word in Chinese and English side by side, so that none lacks a language."""
