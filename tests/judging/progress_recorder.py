"""Records progress callbacks, as a progress bar would show them."""


class ProgressRecorder(list):
    def __call__(self, what, done, of):
        self.append((what, done, of))

    def fills_one_bar(self, of, about=""):
        """Everything that counts to `of` goes from 0 to it, and never back."""
        shown = [done for what, done, whole in self if whole == of and about in what]
        return shown[0] == 0 and shown[-1] == of and shown == sorted(shown)
