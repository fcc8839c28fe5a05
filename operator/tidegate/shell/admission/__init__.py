"""The admission webhook: HTTPS around `core.admission.review`, its certificates, its registration.

Every replica serves. What a review reads comes from caches; the only call is a SubjectAccessReview.
"""
